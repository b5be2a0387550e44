"""The extension for VS Code in a real editor: code-server from npm packages, a person at it in headless Chromium."""
