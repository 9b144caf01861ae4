"""Charts as Vega-Lite specifications by Altair, and the layout diagrams' data. Pure."""
