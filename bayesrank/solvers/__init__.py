"""Fast routes to one program's answer: one folder a program, each checked against an engine."""
