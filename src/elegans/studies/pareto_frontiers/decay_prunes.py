"""Weight decay prunes irrelevant inputs: how much of the first layer's weight lies on the support, with and without.

Wide sparse networks on a sample that they barely generalise from: every neuron starts with two large weights, most of
them on irrelevant inputs. The paper conjectures that weight decay removes these and keeps the good subnetwork. It does
not measure this, so there is no claim to judge.
"""

from matplotlib.figure import Figure

from elegans.experiments import Experiment, Results, Scale, Tables, summary_by
from elegans.plots.marks import bands
from elegans.plots.style import figure_legend, panels, percent, short, title_panels
from elegans.studies.pareto_frontiers.probes import SupportShare
from elegans.studies.pareto_frontiers.settings import trial
from elegans.sweeps import Sweep, grid

DECAYS = (0.0, 0.01)


def networks(n: int, width: int, steps: int, every: int) -> Sweep:
    """Return sparse networks on 1000 examples that train on after they are solved, with and without weight decay."""
    base = trial(n, 3, steps, every).replace("model.width", width).replace("regime", "sample:1000")
    return grid(base.replace("training.stopping.stop", False), {"training.weight_decay": DECAYS})


def analyse(results: Results) -> Tables:
    """Return one row per network and measured step: the ``share`` on the support, and when the network was solved."""
    names = ["task.n", "model.init", "model.width", "regime.size", "training.weight_decay", "solved_at"]
    return {"table": results.measured("support-share", *names)[["seed", "step", "share", *names]]}


def plot(tables: Tables) -> Figure:
    """Draw medians over networks with their 10th to 90th percentiles, one colour for each weight decay."""
    rows = tables["table"]
    figure, ((ax,),) = panels(1, 1, height=3.0, width=5.0)
    bands(ax, rows, "step", "share", "training.weight_decay", label="weight decay {:g}")
    ax.set(ylim=(-0.03, 1.03), xlabel="steps", ylabel="squared hidden weights on the support")
    ax.xaxis.set_major_formatter(lambda value, _: short(value))
    percent(ax)
    last = rows[rows["step"] == rows["step"].max()].groupby("training.weight_decay")["share"].median()
    pruned = len(last) == len(DECAYS) and last[DECAYS[1]] > 0.5 > last[DECAYS[0]]
    task = f"({rows['task.n'].iloc[0]}, 3) parity, width {rows['model.width'].iloc[0]}, 1000 examples"
    networks = f"{rows['seed'].nunique()} networks each"
    title_panels(
        ax,
        ["Only with weight decay does the weight move to the support" if pruned else "Weight on the support"],
        f"{task}; {networks}; lines: medians, bands: 10th to 90th percentiles",
    )
    figure_legend(figure, ax)
    return figure


def findings(tables: Tables) -> dict[str, object]:
    """Return, for each weight decay, how many networks solve, and the median share first and last."""
    return summary_by(
        tables["table"],
        "training.weight_decay",
        "weight decay {:g}",
        networks=lambda rows: rows["seed"].nunique(),
        solved=lambda rows: int(rows.groupby("seed")["solved_at"].first().notna().sum()),
        share_first=lambda rows: round(rows.groupby("seed")["share"].first().median(), 4),
        share_last=lambda rows: round(rows.groupby("seed")["share"].last().median(), 4),
    )


EXPERIMENT = Experiment(
    name="decay-prunes",
    shows="With weight decay the weights of wide sparse networks concentrate on the support; without it they do not",
    source="section 4.2 and the remarks after theorem 21",
    scales={
        "smoke": Scale(lambda trials: networks(30, 300, 3000, 200).with_seeds(trials), trials=3),
        "laptop": Scale(lambda trials: networks(50, 300, 20_000, 500).with_seeds(trials), trials=10),
        "paper": Scale(lambda trials: networks(50, 1000, 40_000, 500).with_seeds(trials), trials=20),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=lambda trial: [SupportShare(every=trial.stopping.every)],  # whenever success is checked
)
