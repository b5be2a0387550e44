"""The extension for VS Code in a real editor: code-server from the npm registry, and a person at it in headless Chromium."""
