"""TiEBe, the Timely Events Benchmark: load it, ask a model, judge its answers, score them."""
