"""One module for each report, which exports `REPORT`."""
