//! Unification of types: whether a type is assignable to another, with type parameters.

use crate::types::CelType;

/// The types that are bound to type parameters so far.
#[derive(Debug, Default)]
pub(crate) struct Substitution {
    types: Vec<Option<CelType>>,
    /// Overwritten bindings, newest last; they are restored if unification fails.
    trail: Vec<(u32, Option<CelType>)>,
}

impl Substitution {
    /// Whether `given` is assignable to `wanted`. Type parameters are bound only if it is.
    pub(crate) fn is_assignable(&mut self, given: &CelType, wanted: &CelType) -> bool {
        self.are_assignable(&[given], &[wanted])
    }

    pub(crate) fn are_assignable(&mut self, given: &[&CelType], wanted: &[&CelType]) -> bool {
        if given.len() != wanted.len() {
            return false;
        }
        self.trail.clear();
        let good = given
            .iter()
            .zip(wanted)
            .all(|(given, wanted)| self.unify(given, wanted));
        if !good {
            while let Some((number, before)) = self.trail.pop() {
                self.types[number as usize] = before;
            }
        }
        good
    }

    fn get(&self, number: u32) -> Option<&CelType> {
        self.types.get(number as usize)?.as_ref()
    }

    fn bind(&mut self, number: u32, of: CelType) {
        let at = number as usize;
        if self.types.len() <= at {
            self.types.resize(at + 1, None);
        }
        let before = self.types[at].replace(of);
        self.trail.push((number, before));
    }

    fn unify(&mut self, a: &CelType, b: &CelType) -> bool {
        if let CelType::TypeParam(number) = b {
            match self.unify_type_param(a, *number) {
                UnifyResult::Yes => return true,
                UnifyResult::NoAndKnown => return false,
                UnifyResult::No => {}
            }
        }
        if let CelType::TypeParam(number) = a {
            return matches!(self.unify_type_param(b, *number), UnifyResult::Yes);
        }
        if a.is_dyn_or_error() || b.is_dyn_or_error() {
            return true;
        }
        match (a, b) {
            (CelType::Null, other) | (other, CelType::Null) => is_nullable(other),
            (CelType::List(a), CelType::List(b)) | (CelType::Optional(a), CelType::Optional(b)) => {
                self.unify(a, b)
            }
            (CelType::Map(a), CelType::Map(b)) => self.unify(&a.0, &b.0) && self.unify(&a.1, &b.1),
            (CelType::Type(_), CelType::Type(_)) => true,
            (a, b) => a.is_identical(b),
        }
    }

    /// Unifies a type parameter with a type.
    fn unify_type_param(&mut self, given: &CelType, number: u32) -> UnifyResult {
        if matches!(given, CelType::TypeParam(other) if *other == number) {
            return UnifyResult::Yes;
        }
        if let Some(known) = self.get(number).cloned() {
            if given.is_identical(&known) {
                return UnifyResult::Yes;
            }
            if !self.unify(given, &known) {
                return UnifyResult::NoAndKnown;
            }
            let general = most_general(given, &known).clone();
            if !self.occurs(number, &general) {
                self.bind(number, general);
            }
            return UnifyResult::Yes;
        }
        if self.occurs(number, given) {
            return UnifyResult::No;
        }
        self.bind(number, given.clone());
        UnifyResult::Yes
    }

    fn occurs(&self, number: u32, within: &CelType) -> bool {
        match within {
            CelType::TypeParam(other) => {
                *other == number
                    || self
                        .get(*other)
                        .is_some_and(|known| self.occurs(number, known))
            }
            CelType::List(of) | CelType::Optional(of) | CelType::Type(of) => {
                self.occurs(number, of)
            }
            CelType::Map(of) => self.occurs(number, &of.0) || self.occurs(number, &of.1),
            _ => false,
        }
    }

    /// Substitutes bound type parameters in a type. With `close`, unbound ones become `dyn`.
    pub(crate) fn resolve(&self, of: &CelType, close: bool) -> CelType {
        match of {
            CelType::TypeParam(number) => match self.get(*number) {
                Some(known) => self.resolve(known, close),
                None if close => CelType::Dyn,
                None => of.clone(),
            },
            CelType::List(of) => CelType::list(self.resolve(of, close)),
            CelType::Optional(of) => CelType::optional(self.resolve(of, close)),
            CelType::Type(of) => CelType::type_of(self.resolve(of, close)),
            CelType::Map(of) => {
                CelType::map(self.resolve(&of.0, close), self.resolve(&of.1, close))
            }
            other => other.clone(),
        }
    }
}

enum UnifyResult {
    Yes,
    No,
    /// It does not fit, and the existing binding stays.
    NoAndKnown,
}

const fn is_nullable(of: &CelType) -> bool {
    matches!(
        of,
        CelType::Null
            | CelType::Duration
            | CelType::Timestamp
            | CelType::Object(_)
            | CelType::Opaque(_)
            | CelType::Optional(_)
    )
}

/// The less specific of two compatible types.
pub(crate) fn most_general<'t>(a: &'t CelType, b: &'t CelType) -> &'t CelType {
    if is_equal_or_less_specific(a, b) {
        a
    } else {
        b
    }
}

fn is_equal_or_less_specific(a: &CelType, b: &CelType) -> bool {
    match (a, b) {
        (CelType::Dyn | CelType::Error | CelType::TypeParam(_), _) => true,
        (_, CelType::Dyn | CelType::Error | CelType::TypeParam(_)) => false,
        (CelType::List(a), CelType::List(b)) | (CelType::Optional(a), CelType::Optional(b)) => {
            is_equal_or_less_specific(a, b)
        }
        (CelType::Map(a), CelType::Map(b)) => {
            is_equal_or_less_specific(&a.0, &b.0) && is_equal_or_less_specific(&a.1, &b.1)
        }
        (CelType::Type(_), CelType::Type(_)) => true,
        (a, b) => a.is_identical(b),
    }
}

/// Renumbers the type parameters of an overload, starting at `from`.
pub(crate) fn instantiate(of: &CelType, from: u32) -> CelType {
    match of {
        CelType::TypeParam(number) => CelType::TypeParam(from + number),
        CelType::List(of) => CelType::list(instantiate(of, from)),
        CelType::Optional(of) => CelType::optional(instantiate(of, from)),
        CelType::Type(of) => CelType::type_of(instantiate(of, from)),
        CelType::Map(of) => CelType::map(instantiate(&of.0, from), instantiate(&of.1, from)),
        other => other.clone(),
    }
}
