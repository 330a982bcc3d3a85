"""Does decoding the fields of an object at the same time cost accuracy? Sets with right answers, both ways.

    python -m pasta.eval.extraction make ITEMS.jsonl --olmo WHEEL --bfcl WHEEL --dates ARCHIVE --gsm8k FILE
    python -m pasta.eval.extraction run ITEMS.jsonl ROWS.jsonl --model M
    python -m pasta.eval.extraction report ROWS.jsonl … [--output SUMMARY.json]
    python -m pasta.eval.extraction speed ITEMS.jsonl OUT.json --model M

`make` reads public data by the paths it is given (docs/structured.md says where they come from); `run` decodes every
item in each mode, all at once, and keeps marks, tokens and steps by prompt; `report` compares the modes, paired;
`speed` times objects of many fields, one at a time and many at once.
"""
