"""Promises of docs/security.md, attacked."""
