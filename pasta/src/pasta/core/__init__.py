"""The language over tokens: vocabulary, grammar, layout, interpreter. No torch."""
