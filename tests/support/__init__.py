"""What tests share: the scripted model provider. Nothing here may be imported by the product."""
