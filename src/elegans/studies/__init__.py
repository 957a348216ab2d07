"""One package per published work: its settings, theory, components, experiments and evidence."""
