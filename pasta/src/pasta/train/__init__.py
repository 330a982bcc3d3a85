"""Finetuning: teach a model where its answers may be decoded apart."""
