"""The claims on the lemmas behind Theorems 4 and 5."""

from elegans.experiments import Claim
from elegans.experiments.rules import theorem
from elegans.studies.pareto_frontiers.checking import SHARES

EXACTLY = "Exact arithmetic: one violation counts against it."

CLAIMS = (
    Claim(
        id="pareto/lemma-7-good-neuron",
        statement="A random s-sparse neuron covers the support with probability at least (s/2n)^k.",
        source="Lemma 7",
        setting="4k < s <= n",
        rule=f"{EXACTLY} All k <= 6 and n <= 200; 10^5 neurons of the initialiser at (20, 2), s = 9, within 3.3 "
        "standard errors of the exact probability (error rate 0.1%).",
        decide=theorem("pareto/lemma-7-good-neuron"),
    ),
    Claim(
        id="pareto/lemma-8-gradients-of-good-neurons",
        statement="A good neuron has one correlation with every relevant weight, another with every other weight of "
        "its own, and none with the rest.",
        source="Lemma 8 (1, 2)",
        setting="k even, s odd, 4k < s",
        rule=f"{EXACTLY} Enumeration at (12, 2), (14, 2) with s = 9 and (18, 4) with s = 17, for every bias of both "
        "lists.",
        decide=theorem("pareto/lemma-8-gradients-of-good-neurons"),
    ),
    Claim(
        id="pareto/lemma-8-bounds",
        statement="|C| exceeds a constant times C(s, k - 1)^(-1/2), and |c|/|C| is at most 4k/s.",
        source="Lemma 8 (end)",
        setting="k even, s odd, 4k < s; constant sqrt(rho(k - 1))/2, which the proof names",
        rule=f"{EXACTLY} k <= 10 and 4k < s <= 2001. The proof also says that the weight of a level is at most 2 rho; "
        "this has a check of its own, which decides nothing.",
        revised="The claim held with correction, because a misprint in the proof counted against the statement. The "
        "printed rho is half of what it should be, so weights exceed 2 rho. Both bounds of the lemma are true, and the "
        "claim now holds.",
        decide=theorem("pareto/lemma-8-bounds"),
    ),
    Claim(
        id="pareto/lemma-9-bad-neurons",
        statement="The correlations of a bad neuron have an l1 norm of at most C, and at most one is not 0.",
        source="Lemma 9, proof of Lemma 11",
        setting="4k < s; k even, s odd (both tacit)",
        rule=f"{EXACTLY} Enumeration up to n = 18 for every number of missed coordinates; with |C|, and with the sign "
        "that C has, which is negative for k = 4.",
        decide=theorem("pareto/lemma-9-bad-neurons", "|C| in the place of C"),
    ),
    Claim(
        id="pareto/lemma-10-concentration",
        statement="4 log(4nr/delta)/tau^2 examples bring every entry of the first gradient within tau of its mean "
        "with probability 1 - delta.",
        source="Lemma 10",
        setting="hinge loss at a network of output 0",
        rule=f"300 samples at (20, 2), s = 9, 40 neurons, tau = 0.05, delta = 0.1; weights and biases. {SHARES}",
        revised="Only the gradients of the weights were compared; now those of the biases are too. The rule was "
        "changed after the tables had been seen. The verdict is the same.",
        decide=theorem("pareto/lemma-10-concentration"),
    ),
    Claim(
        id="pareto/lemma-11-features",
        statement="After the first step the features are close to population features of bounded norm, on which a "
        "readout of bounded norm has a small loss; bad neurons are 0 on every input.",
        source="Lemma 11 (1 to 3) and the claims of its proof",
        setting="rate 1/(2k|C|), tau = 1/(16 eta k n), k/2 - 1 biases as printed; corrected: k/2 biases with offset "
        "3/4 in place of 1/16",
        rule="100 runs each at (12, 2), s = 9 and (18, 4), s = 17, the width of Lemma 15 and the sample of Lemma 10 "
        f"for delta = 0.01, largest values over all inputs. {SHARES} With the printed biases an exact linear program "
        "gives the smallest loss on the ideal features, which must be 0. At these sizes the bounds on loss and "
        "distance exceed any plausible value (307 and 116 at (12, 2)); of the statements on samples, only the silence "
        "of bad neurons is a real test.",
        revised="The error rate was 1% for each comparison; now the total is 2%. The verdict is the same.",
        decide=theorem("pareto/lemma-11-features", "a list of k/2 biases; with the printed list the loss is not small"),
    ),
    Claim(
        id="pareto/lemma-12-lipschitz",
        statement="Other features change the loss of a linear readout by at most its norm times their distance, which "
        "is the largest Euclidean distance over the inputs.",
        source="Lemma 12",
        setting="any; hinge loss. The lemma is printed with a plain supremum norm; its proof and the definition before "
        "Lemma 11 have the supremum over inputs of the Euclidean norm",
        rule="1000 random pairs of features, readouts and labels, n <= 10, over all inputs and over samples, and as "
        "many pairs that differ along the readout at every input, with the hinge active: one violation counts against "
        "it. These last reach the bound, so the largest entry as the norm would fail (a test checks that it does).",
        revised="Only random pairs were drawn, which stay below 60% of the bound; pairs along the readout were "
        "added. The verdict is the same.",
        decide=theorem("pareto/lemma-12-lipschitz"),
    ),
    Claim(
        id="pareto/lemma-13-generalisation",
        statement="With probability at least 1 - delta, for all readouts of norm at most B on fixed features the "
        "population's loss exceeds the sample's by at most (2B||psi|| + 1) sqrt(2 log(2/delta)/m).",
        source="Lemma 13",
        setting="features that are fixed before the sample; for other features psi' the lemma adds 2B||psi - psi'||, "
        "which follows from Lemma 12",
        rule="300 samples each of 50, 200 and 1000 examples of 10 signs, 20 random features, B = 15, delta = 0.1: the "
        f"largest excess that subgradient ascent finds from 8 starts. {SHARES} Ascent may stop early, which favours "
        "the claim: it holds where searched.",
        revised="The error rate was 1% for each comparison; now the total is 2%. The verdict is the same.",
        decide=theorem("pareto/lemma-13-generalisation"),
    ),
    Claim(
        id="pareto/lemma-14-readout-descent",
        statement="Given good features, there are learning rates and a weight decay with which gradient descent "
        "returns a readout of population loss at most 7 epsilon with probability at least 1 - 2 delta.",
        source="Lemma 14",
        setting="m and T as printed; rates may differ for each iteration. The lemma says that some rates and decay "
        "exist; its proof takes the decay epsilon/B^2 and the rates 1/(decay t)",
        rule="100 samples on the ideal features for epsilon = 0.1, delta = 0.05: k = 2 with offsets 1/16 and 3/4 and k "
        "= 4 with offset 1/16 (our choices) at the printed number of steps. The best of three schedules counts in each "
        "sample (our choice): the proof's, and rates that fall linearly from B to 0, without decay and with the "
        f"proof's. {SHARES} With the proof's schedule alone the printed T does not suffice for k = 4, since its proof "
        "has lost a factor B^2; this decides nothing, nor does Claim 1 of the proof (loss at most B||psi||), on 200 "
        "random readouts. The proof's schedule at its corrected number of steps is run for k = 2 with offset 3/4, and "
        "counts. For k = 4 this number, 5 10^13, is too large to run.",
        revised="The claim held with correction, because a misprint in the proof counted against the statement. With "
        "1 + B||psi|| in Claim 1 the proof is right there, and the claim held. Then k = 4 was tried, where the printed "
        "T does not suffice with the proof's rates, and the claim held with correction. But the lemma only says that "
        "some rates exist. Linearly falling ones, which had been tried on such samples before they entered the rule, "
        "reach the loss with the printed T, so the claim holds in the cases tried, and the lost factor is an error of "
        "the proof. The rule was changed after the tables had been seen.",
        decide=theorem("pareto/lemma-14-readout-descent"),
    ),
    Claim(
        id="pareto/lemma-15-enough-good-neurons",
        statement="At width 20k(2n/s)^k log(2k/delta) every bias has between r'/2 and 2r' good neurons with "
        "probability at least 1 - delta.",
        source="Lemma 15",
        setting="k/2 biases: the printed list has k/2 - 1, none for k = 2; printed: r' = (r/2k)(s/2n)^k; corrected: "
        "the exact mean",
        rule="Exact multinomial probabilities at (20, 2), s = 9, (50, 4), s = 17 and (100, 4), s = 21, delta = 0.1 "
        "and 0.01: below 1 - delta counts against it.",
        decide=theorem("pareto/lemma-15-enough-good-neurons", "the exact mean in the place of r'"),
    ),
    Claim(
        id="pareto/lemma-17-closed-form",
        statement="The Fourier coefficients of Half and majority have closed forms; Half has none of odd degree.",
        source="Lemma 17, proof of Lemma 20",
        setting="any size",
        rule=f"{EXACTLY} Sums over all values of up to 21 signs, all degrees.",
        decide=theorem("pareto/lemma-17-closed-form"),
    ),
    Claim(
        id="pareto/lemma-18-relevant-coordinates",
        statement="On a relevant coordinate a neuron of s ones and small weights elsewhere has half the product of a "
        "coefficient of Half and one of majority as its correlation.",
        source="Lemma 18",
        setting="s < k, both even; any overlap of the ones and the support",
        rule=f"{EXACTLY} Enumeration at n = 9 to 14, k = 2 to 6, every overlap, n - s odd and even, dyadic epsilon.",
        decide=theorem("pareto/lemma-18-relevant-coordinates"),
    ),
    Claim(
        id="pareto/lemma-19-irrelevant-coordinates",
        statement="The same holds on an irrelevant coordinate, with the degrees raised by this coordinate.",
        source="Lemma 19",
        setting="as for Lemma 18",
        rule=f"{EXACTLY} As for Lemma 18.",
        decide=theorem("pareto/lemma-19-irrelevant-coordinates"),
    ),
    Claim(
        id="pareto/lemma-20-good-neurons",
        statement="For ones inside the support these are one value on the rest of the support, another outside it, "
        "and 0 on the ones.",
        source="Lemma 20",
        setting="as for Lemma 18",
        rule=f"{EXACTLY} As for Lemma 18.",
        decide=theorem("pareto/lemma-20-good-neurons"),
    ),
    Claim(
        id="pareto/theorem-21-gap-ratio",
        statement="A good neuron's relevant correlation is (n - s)/(k - s - 1) times the irrelevant one.",
        source="Proof of Theorem 21",
        setting="k and s even",
        rule=f"{EXACTLY} All n <= 101, k <= 8; the printed ratio, the corrected one, and the order (within a factor "
        "of 2, ours, for n > 2k).",
        decide=theorem("pareto/theorem-21-gap-ratio", "the order in n; exact with n - k or n - k + 1 for n - s"),
    ),
    Claim(
        id="pareto/theorem-21-step-and-precision",
        statement="Biases do not alter the first gradient; the truncated population step leaves epsilon/2k on the "
        "support and epsilon^2/k elsewhere; half the irrelevant correlation, taken as the precision needed, is of "
        "order (n - s)^(-(k - s - 1)/2); k + 1 neurons suffice, and a bias has a chance of 1/(k + 1).",
        source="Proof of Theorem 21",
        setting="biases at most epsilon/2, decay 1 - epsilon/2k",
        rule=f"{EXACTLY} Enumeration at n <= 14; exponents between n = 1000 and 10,000 within 0.05 (our choice); each "
        "printed statement and its corrected form have a check each.",
        decide=theorem(
            "pareto/theorem-21-step-and-precision",
            "the biases; weights, precision and number of neurons only after correction",
        ),
    ),
)
