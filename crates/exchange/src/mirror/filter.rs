//! Filters a body between the origin and all readers: verifies it while it arrives, then changes it.

use std::rc::Rc;

use bytes::Bytes;
use message::Framing;

use origin::{BodyFilter, outcome::UpstreamError};

use super::{
    replace::Replacing,
    settings::Mirror,
    verify::{Digest, Verifying, Wrong},
};

/// The filter of one body.
pub struct Filter {
    /// The framing of the origin's body; readers may be told another length.
    framing: Framing,
    mirror: Rc<Mirror>,
    verifying: Option<Verifying>,
    replacing: Option<Replacing>,
    is_over: bool,
}

impl Filter {
    /// A body with this framing: replaced, or checked against a digest, or both.
    pub fn new(
        mirror: &Rc<Mirror>,
        framing: Framing,
        digest: Option<Digest>,
        replaces: bool,
    ) -> Filter {
        Filter {
            framing,
            mirror: Rc::clone(mirror),
            verifying: digest.map(Verifying::of),
            replacing: replaces.then(Replacing::default),
            is_over: false,
        }
    }

    fn changed(&mut self, piece: Bytes) -> Option<Bytes> {
        let (Some(replacing), Some(needle)) = (&mut self.replacing, &self.mirror.needle) else {
            return Some(piece);
        };
        Some(replacing.take(needle, piece)).filter(|piece| !piece.is_empty())
    }
}

impl BodyFilter for Filter {
    fn framing(&self) -> Framing {
        self.framing
    }

    fn take(&mut self, piece: Bytes) -> Option<Bytes> {
        let piece = match &mut self.verifying {
            Some(verifying) => verifying.take(piece)?,
            None => piece,
        };
        self.changed(piece)
    }

    fn end(&mut self) -> Result<Option<Bytes>, UpstreamError> {
        if std::mem::replace(&mut self.is_over, true) {
            return Ok(None);
        }
        let held = match self.verifying.take() {
            Some(verifying) => verifying.end().map_err(|Wrong| UpstreamError::Digest)?,
            None => None,
        };
        let last = held.and_then(|piece| self.changed(piece));
        let rest = self.replacing.as_mut().map(Replacing::rest);
        let rest = rest.filter(|rest| !rest.is_empty());
        Ok(match (last, rest) {
            (Some(last), Some(rest)) => Some([last, rest].concat().into()),
            (last, rest) => last.or(rest),
        })
    }
}
