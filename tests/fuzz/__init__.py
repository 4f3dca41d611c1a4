"""Fuzzing: whatever a stranger's file holds, the answer is a right one or one message.

`seeds` makes what is whole, `values` and `files` spoil it, `kinds` says what is then done with it,
`children` does that in forked processes with limits. `make fuzz`, or `python -m fuzz` in the folder
above, goes on for as long as one likes. Case n of a kind is the same whenever it is made.
"""
