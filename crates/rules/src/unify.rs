//! Which types go where others are asked for.

use crate::types::Type;

/// What is known so far of types that were left open.
#[derive(Debug, Default)]
pub(crate) struct Known {
    types: Vec<Option<Type>>,
    /// What was known before, newest last: a type that does not fit leaves no trace.
    trail: Vec<(u32, Option<Type>)>,
}

impl Known {
    /// Whether a type is good where another is wanted. If so, what that says of open types
    /// is remembered; if not, nothing is.
    pub(crate) fn assign(&mut self, given: &Type, wanted: &Type) -> bool {
        self.assign_all(&[given], &[wanted])
    }

    pub(crate) fn assign_all(&mut self, given: &[&Type], wanted: &[&Type]) -> bool {
        if given.len() != wanted.len() {
            return false;
        }
        self.trail.clear();
        let good = given
            .iter()
            .zip(wanted)
            .all(|(given, wanted)| self.fits(given, wanted));
        if !good {
            while let Some((number, before)) = self.trail.pop() {
                self.types[number as usize] = before;
            }
        }
        good
    }

    fn get(&self, number: u32) -> Option<&Type> {
        self.types.get(number as usize)?.as_ref()
    }

    fn learn(&mut self, number: u32, of: Type) {
        let at = number as usize;
        if self.types.len() <= at {
            self.types.resize(at + 1, None);
        }
        let before = self.types[at].replace(of);
        self.trail.push((number, before));
    }

    fn fits(&mut self, a: &Type, b: &Type) -> bool {
        if let Type::Free(number) = b {
            match self.stands_for(a, *number) {
                Fit::Yes => return true,
                Fit::NoAndKnown => return false,
                Fit::No => {}
            }
        }
        if let Type::Free(number) = a {
            return matches!(self.stands_for(b, *number), Fit::Yes);
        }
        if a.is_dyn_or_error() || b.is_dyn_or_error() {
            return true;
        }
        match (a, b) {
            (Type::Null, other) | (other, Type::Null) => is_nullable(other),
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => {
                self.fits(a, b)
            }
            (Type::Map(a), Type::Map(b)) => self.fits(&a.0, &b.0) && self.fits(&a.1, &b.1),
            (Type::Type(_), Type::Type(_)) => true,
            (a, b) => a.is(b),
        }
    }

    /// Whether an open type can be the one given.
    fn stands_for(&mut self, given: &Type, number: u32) -> Fit {
        if matches!(given, Type::Free(other) if *other == number) {
            return Fit::Yes;
        }
        if let Some(known) = self.get(number).cloned() {
            if given.is(&known) {
                return Fit::Yes;
            }
            if !self.fits(given, &known) {
                return Fit::NoAndKnown;
            }
            let general = most_general(given, &known).clone();
            if !self.occurs(number, &general) {
                self.learn(number, general);
            }
            return Fit::Yes;
        }
        if self.occurs(number, given) {
            return Fit::No;
        }
        self.learn(number, given.clone());
        Fit::Yes
    }

    fn occurs(&self, number: u32, within: &Type) -> bool {
        match within {
            Type::Free(other) => {
                *other == number
                    || self
                        .get(*other)
                        .is_some_and(|known| self.occurs(number, known))
            }
            Type::List(of) | Type::Optional(of) | Type::Type(of) => self.occurs(number, of),
            Type::Map(of) => self.occurs(number, &of.0) || self.occurs(number, &of.1),
            _ => false,
        }
    }

    /// A type with everything in it that is known. `close`: what is still open is `dyn`.
    pub(crate) fn resolve(&self, of: &Type, close: bool) -> Type {
        match of {
            Type::Free(number) => match self.get(*number) {
                Some(known) => self.resolve(known, close),
                None if close => Type::Dyn,
                None => of.clone(),
            },
            Type::List(of) => Type::list(self.resolve(of, close)),
            Type::Optional(of) => Type::optional(self.resolve(of, close)),
            Type::Type(of) => Type::type_of(self.resolve(of, close)),
            Type::Map(of) => Type::map(self.resolve(&of.0, close), self.resolve(&of.1, close)),
            other => other.clone(),
        }
    }
}

enum Fit {
    Yes,
    No,
    /// And what is known of it will not change.
    NoAndKnown,
}

const fn is_nullable(of: &Type) -> bool {
    matches!(
        of,
        Type::Null
            | Type::Duration
            | Type::Timestamp
            | Type::Object(_)
            | Type::Library(_)
            | Type::Optional(_)
    )
}

/// Of two types that fit, the one that says less.
pub(crate) fn most_general<'t>(a: &'t Type, b: &'t Type) -> &'t Type {
    if says_no_more(a, b) { a } else { b }
}

fn says_no_more(a: &Type, b: &Type) -> bool {
    match (a, b) {
        (Type::Dyn | Type::Error | Type::Free(_), _) => true,
        (_, Type::Dyn | Type::Error | Type::Free(_)) => false,
        (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => {
            says_no_more(a, b)
        }
        (Type::Map(a), Type::Map(b)) => says_no_more(&a.0, &b.0) && says_no_more(&a.1, &b.1),
        (Type::Type(_), Type::Type(_)) => true,
        (a, b) => a.is(b),
    }
}

/// A type of the table of functions with open types of its own.
pub(crate) fn instantiate(of: &Type, from: u32) -> Type {
    match of {
        Type::Free(number) => Type::Free(from + number),
        Type::List(of) => Type::list(instantiate(of, from)),
        Type::Optional(of) => Type::optional(instantiate(of, from)),
        Type::Type(of) => Type::type_of(instantiate(of, from)),
        Type::Map(of) => Type::map(instantiate(&of.0, from), instantiate(&of.1, from)),
        other => other.clone(),
    }
}
