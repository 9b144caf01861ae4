"""The run tower: carries out plans on hosts and fills run folders."""
