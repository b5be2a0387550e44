"""JSON Schemas of the files that people write, made of the models that read them, with the meaning of each key."""
