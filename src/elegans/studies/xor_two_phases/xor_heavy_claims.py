"""The claims on signal-heavy networks."""

from functools import partial

from elegans.experiments import Claim, Tables, Verdict
from elegans.experiments.claims import HOLDS, UNDECIDED
from elegans.experiments.rules import by_checks, table

BUILT = (
    "Built (zeta, H)-signal-heavy networks close to the limit of the first condition and at half of the second, d "
    "= 12, H = 1, zeta = e^-10, e^-12, e^-14, 300 each, exact gradients at the limit of small steps. "
)
RUNS = (
    "Ten runs in double precision, d = 64, 256 neurons, theta = eta = 0.1, batches of d/theta, eta t = 40 (our choice "
    "of sizes)"
)
RUN = ", run"
"""What names of checks contain that follow a run; its networks do not meet the definition of signal-heavy ones."""
REPORTED = (
    "Every one of ten runs had to keep a bound as well, with no error rate, although their networks are not "
    "signal-heavy as the statement asks. They are now reported, as for the other claims on such networks; this was "
    "changed after the tables had been seen. The verdict is the same."
)


def on_built(tables: Tables, *, claim: str, needs: str = "") -> Verdict:
    """Decide a statement on signal-heavy networks by the constructed ones; runs outside the definition are reported.

    Where ``needs`` says what of the statement these networks cannot show, it is undecided at best.
    """
    rows = table(tables, "checks", "the computations of this statement", claim=claim)
    along = rows["check"].str.contains(RUN)
    verdict = by_checks({"checks": rows[~along]}, claim=claim)
    seen = rows[along].set_index("check")[["worst", "limit", "cases"]].to_dict("index")
    because = ", ".join(f"{name}: {values['worst']:.3g}" for name, values in seen.items())
    best = UNDECIDED if needs and verdict.verdict == HOLDS else ""
    numbers = {str(name): values for name, values in seen.items()}
    return verdict.but(best, because=f"reported, outside the hypotheses: {because}", needs=needs, **numbers)


CLAIMS = (
    Claim(
        id="xor/margin-growth",
        statement="In the second phase the least heavy margin grows per step by a factor of at least 1 + 2 eta tau_2 "
        "(1 - o(1)) g_max, and the largest by at most 1 + 2 eta tau_2 (1 + o(1)) g_min.",
        source="Lemmas 4.4 (2, 3), D.3, D.12 and D.13",
        setting="signal-heavy networks with zeta <= e^(-10H), eta <= zeta^3; not stated: o(1)",
        rule=f"{BUILT}The factors differ from the bounds by at most 10% at e^-10, and by less than half as much at "
        f"e^-14 (our thresholds). Reported, not judged: {RUNS}; once all margins are 1, by how much the mean ratio of "
        "growth to each bound differs from 1 in the worst run.",
        revised=REPORTED,
        decide=partial(on_built, claim="xor/margin-growth"),
    ),
    Claim(
        id="xor/signal-heavy-kept",
        statement="After the first phase the network is (zeta, H)-signal-heavy and stays so; zeta grows per step by "
        "a factor of at most 1 + 10 eta zeta H.",
        source="Definition 4.2, Lemmas 4.4 (1), D.3 (1) and D.4",
        setting="zeta <= e^(-10H), H >= 1; not stated: which power of log d zeta equals at the start",
        rule=f"{BUILT}The burden of neurons in S and the light mass grow by no more than allowed: this is the "
        "inductive step, and one violation makes it fail. That the first phase ends in such a network is stated for "
        f"large d and cannot be decided at these sizes. Reported, not judged: {RUNS}; zeta over e^(-10H), and the "
        "rise of zeta with the factor 1 for e^(6H).",
        revised="The claim held in part, because runs did not meet the definition at d = 64, which the statement for "
        "large d does not require. It is now undecided: built networks satisfy the inductive step, and the smallest "
        "zeta over e^(-10H) is as large at d = 256 as at d = 64 (1.4e5).",
        decide=partial(
            on_built,
            claim="xor/signal-heavy-kept",
            needs="runs over several d, with theta falling in d, whose least zeta over e^(-10H) falls as well",
        ),
    ),
    Claim(
        id="xor/rest-shrinks",
        statement="In a signal-heavy network, under the clean gradient, a weighted sum of ||w_perp||^2 and "
        "||w_opp||^2 decreases for heavy neurons.",
        source="section 4.1.1, item 2; Lemma D.7, Corollary D.8, Claim D.9, Lemma D.12",
        setting="weight e^(6H); the printed exponent of zeta in D.8 is hard to read",
        rule=f"{BUILT}The weighted sum falls under the clean gradient for every heavy neuron. P(|w.xi| >= sqrt(2) o) "
        ">= 1/2 for ||w_perp|| = 10 o, with dense, sparse and equal entries. One violation counts against the claim. "
        f"Reported, not judged, since these networks are not signal-heavy: {RUNS}; the largest rise of the sum with "
        "weights 1.",
        revised="A rise of more than 1% along runs counted against the claim, although their networks are not "
        "signal-heavy; the claim held in part. The statement now names its hypotheses. On networks that meet them it "
        "holds.",
        decide=partial(on_built, claim="xor/rest-shrinks"),
    ),
    Claim(
        id="xor/clean-gradient-distance",
        statement="In a (zeta, H)-signal-heavy network clean and true gradients differ by at most 4|a| zeta E||aw|| "
        "and 4||w|| zeta E||aw||.",
        source="Equation 4.6, Lemma D.5",
        setting="zeta <= e^(-10H)",
        rule=f"{BUILT}No violation. Reported, not judged: {RUNS}; once the signal dominates, the mean square "
        "difference between the slope at x and at its projection, over the slope's mean square, in the worst run.",
        revised=REPORTED,
        decide=partial(on_built, claim="xor/clean-gradient-distance"),
    ),
    Claim(
        id="xor/clean-gradient-cap",
        statement="No neuron grows faster than the neurons of the weakest cluster: |clean gradient of a| <= tau_2 "
        "g_max ||w||, and ||w||^2 grows per step by a factor of at most 1 + 2 eta (1 + 2 zeta H) tau_2 g_max.",
        source="Lemmas D.10 and D.11, section 4.1.1",
        setting="D.10 for any network, D.11 for signal-heavy ones with high probability",
        rule=f"D.10 by its closed form on 10,000 random neurons, and by ascent. {BUILT}No violation. Reported, not "
        f"judged: {RUNS}; the share of the light neurons' steps above the bound of D.11 with the relaxed zeta, in the "
        "worst run.",
        revised=REPORTED,
        decide=partial(on_built, claim="xor/clean-gradient-cap"),
    ),
    Claim(
        id="xor/final-loss",
        statement="In a signal-heavy network all margins are within 2 zeta H of the heavy ones, and the loss is at "
        "most 4 exp(-least heavy margin).",
        source="Lemma D.14, end of the proof of Theorem E.1",
        setting="eta <= zeta^2, d large; the factor 4 stands for 2 (1 + o(1))",
        rule=f"{BUILT}No violation. Reported, not judged: {RUNS}; the held-out loss over its bound at every fifth step "
        "after all margins have reached 1, in the worst run.",
        revised=REPORTED,
        decide=partial(on_built, claim="xor/final-loss"),
    ),
)
