"""Tools of invocations, and the gate that every call passes."""
