"""Where every GPU-hour went."""
