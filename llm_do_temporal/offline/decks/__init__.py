"""The offline evaluation of pitch decks."""
