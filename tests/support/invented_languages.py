"""Every invented language."""

from paribus.spec import (
    ArithmeticLanguage,
    CopyLanguage,
    LinearLanguage,
    RecallLanguage,
    ReverseLanguage,
    SortLanguage,
    TranslationLanguage,
)

LANGUAGES = (
    CopyLanguage,
    ReverseLanguage,
    SortLanguage,
    RecallLanguage,
    LinearLanguage,
    TranslationLanguage,
    ArithmeticLanguage,
)
