"""Attention of typical networks on one sequence over training: as a table, and as the pictures made of it."""

from pathlib import Path

import numpy as np
import pandas as pd

from elegans.experiments import Results, Tables
from elegans.plots.attention import attention_map
from elegans.plots.style import MEDIUM, SMALL, panels, title_figure, title_panels
from elegans.studies.induction_heads.animations import AttentionHistory
from elegans.studies.induction_heads.tables import measured, until

SHARES = {"plateau": 0.5, "before": 0.85, "after": 1.25}
"""The shares of the time to the transition at which attention between start and end is drawn."""
MAPS = {"plateau": "on the plateau", "before": "before the drop", "end": "at the end"}
"""The times at which weights are drawn, and their labels."""
LAYERS = ("layer1", "layer2")
DIGITS = 3
"""The number of decimals of logits in the table."""


def map_table(results: Results, curves: pd.DataFrame) -> pd.DataFrame:
    """Return one row per measured step of typical trials: ``series``, ``seed``, ``step``, ``tokens`` and two layers.

    ``layer1`` and ``layer2`` are lists of the first head's logits on and below the diagonal, row by row.
    """
    shown = curves.loc[curves["typical"], ["trial", "series", "seed", "step"]]
    maps = shown.merge(measured(results, "attention-maps").drop(columns="seed"), on=["trial", "step"])
    for layer in LAYERS:
        logits = [array[0][np.tril_indices(array.shape[-1])] for array in maps[f"{layer}.logits"]]
        maps[layer] = [np.round(row.astype(float), DIGITS).tolist() for row in logits]
    maps["tokens"] = [tokens.tolist() for tokens in maps["tokens"]]
    return maps[["series", "seed", "step", "tokens", *LAYERS]]


def histories_of(tables: Tables) -> dict[str, AttentionHistory]:
    """Return what the typical network of each series attends to, by series."""
    histories, curves = {}, tables["curves"]
    for series, rows in tables["maps"].groupby("series", sort=False):
        run = curves[(curves["series"] == series) & curves["typical"]]
        tokens, layers = np.array(rows["tokens"].iloc[0]), []
        for layer in LAYERS:
            logits = np.zeros((len(rows), 1, len(tokens), len(tokens)))
            logits[:, 0, *np.tril_indices(len(tokens))] = np.array(rows[layer].to_list())
            layers.append(logits)
        lines = {name: float(run[f"line.{name}"].iloc[0]) for name in ("unigram", "bigram")}
        steps, losses = rows["step"].to_numpy(int), run["loss"].to_numpy(float)
        histories[str(series)] = AttentionHistory(tokens, steps, tuple(layers), losses, lines)
    return histories


def maps(tables: Tables, path: Path) -> None:
    """Draw the attention of the first series' typical network at three times, one row per layer."""
    history, curves = next(iter(histories_of(tables).values())), tables["curves"]
    moved = curves.loc[curves["typical"], "transition"].iloc[0]
    steps = shown_steps(pd.DataFrame({"step": history.steps, "transition": moved}))
    figure, axes = panels(2, len(MAPS), height=2.3)
    for column, name in enumerate(MAPS):
        weights = history.weights(int(np.flatnonzero(history.steps == steps[name])[0]))
        for layer in range(2):
            attention_map(weights[layer][0], axes[layer, column], tokens=history.tokens)
    title_panels(axes, [f"Layer {n}, {when}: step {steps[name]:,}" for n in (1, 2) for name, when in MAPS.items()])
    finding = "At the end layer 1 attends to the previous token, layer 2 to what followed earlier copies"
    title_figure(figure, finding, "One two-layer attention-only transformer on one sequence; one row per query")
    for ax in axes[:, 0]:
        ax.set_ylabel("query", fontsize=MEDIUM, labelpad=9)
    for ax in axes[-1]:
        ax.set_xlabel("key", fontsize=MEDIUM, labelpad=9)
    bar = figure.colorbar(axes[0, 0].images[0], ax=axes, fraction=0.02, pad=0.01)
    bar.set_label("attention weight", fontsize=MEDIUM)
    bar.ax.tick_params(labelsize=SMALL, length=1)
    bar.outline.set_visible(False)
    figure.savefig(path, metadata={"Date": None})


def shown_steps(run: pd.DataFrame) -> dict[str, int]:
    """Return the measured steps at which attention is drawn, by name: start, plateau, before, after, end.

    Those in between are nearest to 0.5, 0.85 and 1.25 times the transition, or the last step where there is none.

    Args:
        run: one trial's rows in order: ``step`` and ``transition``.
    """
    steps, end = run["step"].to_numpy(int), until(run)
    between = {name: int(steps[np.abs(steps - share * end).argmin()]) for name, share in SHARES.items()}
    return {"start": int(steps[0]), **between, "end": int(steps[-1])}
