"""Compiled steps: the body of a fold, traced once per structure and run as a flat list of array operations.

The interpreter is the reference, and what is compiled is nothing but what it did. A step runs once on a copy
of the state in which every array and every number writes down what is done to it (`traced`, on a `tape`). The
tape joins the other tapes of the same structure in a `tree`, and the tree is written out as one Python
function of NumPy calls.

What is a structure? Everything about the state of a run that is not a number (`state`): the shape of the
accumulator, the variables that it reaches with their families and states, the forms of expressions, and which
arrays lag behind by which resampling. Of a history only the head belongs to it.

What is traced? Every operation on arrays and numbers, draws from the same generator in the same order, and
resampling as one operation. So a compiled run draws what an interpreted one draws, and gives the same answer.

What guards a trace? Every question that the interpreter asks of a number is a decision on the tape: whether a
variance is positive, whether all particles take a branch, whether a coefficient is 0. A decision that goes
another way than before ends the compiled step, which has changed nothing so far; the step is traced anew, and
the tree has one more branch. Checks that follow from others are left out (`facts`), and so are those that
follow from what every step hands on to the next (`invariants`). Particles that part inside a step are arrays
of a length that depends on data; what both sides do alike is done to all lanes at once (`lift`).

What is left to the interpreter? Steps that resample inside a branch, that read arrays in ways the tape does
not know, whose structure keeps changing, or that hardly ever repeat (`step`); and every error, which is found
by the interpreter when it runs the step again.
"""
