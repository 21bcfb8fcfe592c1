"""Every invented language."""

from paribus.spec import (
    ArithmeticLanguage,
    ClassificationLanguage,
    CopyLanguage,
    LinearLanguage,
    RecallLanguage,
    RegressionLanguage,
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
    RegressionLanguage,
    ClassificationLanguage,
)
