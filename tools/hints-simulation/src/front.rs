//! A front: its view, and what it says to nodes about pushes.

use hints::frames::{Frame, Subscribe, Withdrawn};
use hints::mistakes::{Mistake, makes};
use hints::view::{Broken, Reader};
use hints::{Known, Name, View};

use crate::node::trace;

#[derive(Debug)]
pub(crate) struct Front {
    /// Identifies this start of the front.
    pub(crate) life: u64,
    pub(crate) view: View,
    reader: Reader,
}

/// A name with a single mark: looks up one position, or one number.
struct Mark(u64);

impl Name for Mark {
    fn number(&self) -> u64 {
        self.0
    }

    fn positions(&self, _: hints::Shape) -> impl Iterator<Item = u32> {
        std::iter::once(self.0 as u32)
    }
}

impl Front {
    pub(crate) fn new(life: u64, columns: u32) -> Front {
        let view = View::new(columns);
        Front {
            life,
            reader: view.reader(),
            view,
        }
    }

    /// The nodes that may have the name, as bits.
    pub(crate) fn nodes(&mut self, name: u64) -> u64 {
        let groups = self.reader.groups();
        groups.nodes(|naming| trace(naming.seed, name))
    }

    /// The nodes for which a mark is set, as bits.
    pub(crate) fn nodes_with_mark(&mut self, mark: u64) -> u64 {
        self.reader.groups().nodes(|_| Mark(mark))
    }

    /// Registers a name that is about to be pushed.
    pub(crate) fn register(&mut self, node: u8, column: u8, name: u64) -> Known {
        let groups = self.reader.groups();
        groups.register(node, column, |naming| trace(naming.seed, name))
    }

    /// The label that a push carries if it is sent now.
    pub(crate) fn carried(&mut self, node: u8, column: u8, known: Known) -> Known {
        if !makes(Mistake::LabelLate) {
            return known;
        }
        let mut columns = self.reader.groups().columns_of(node);
        let late = columns.find(|followed| followed.number == column);
        late.map_or(known, |followed| followed.known())
    }

    /// The frame for the node if a push was not stored, as far as the front knows.
    pub(crate) fn withdrawn(&self, column: u8, number: u64) -> Option<Frame> {
        let withdrawn = Frame::Withdrawn(Withdrawn { column, number });
        (!makes(Mistake::ForgetWithdrawn)).then_some(withdrawn)
    }

    /// Handles a frame from a node; returns the frames for that node.
    pub(crate) fn handle(
        &mut self,
        node: u8,
        frame: &Frame,
        now_ms: u64,
    ) -> Result<Vec<Subscribe>, Broken> {
        self.view.handle(node, frame, now_ms)
    }
}
