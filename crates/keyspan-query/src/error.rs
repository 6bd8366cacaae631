//! DataFusion's errors as Keyspan's: the one place where the two vocabularies meet.
