"""Builds releases of TiEBe, the Timely Events Benchmark; imports `tiebe`, never the reverse."""
