//! The state of a member in one word, the same in all outputs.
//!
//! Not known here: what a member holds.

use super::state::Cluster;
use base::member::MemberId;

/// The state of a member: the first in this order that applies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// Its link is down, or it is silent.
    Away,
    /// It has not yet heard all our purges.
    CatchingUp,
    /// Requests to it failed a moment ago, or its disks do not answer.
    Avoided,
    /// It has announced that it is shutting down.
    Draining,
    /// None of these.
    Up,
}

impl Standing {
    /// All of them.
    pub const ALL: [Standing; 5] = [
        Standing::Away,
        Standing::CatchingUp,
        Standing::Avoided,
        Standing::Draining,
        Standing::Up,
    ];

    /// The word for it in outputs.
    pub fn as_str(self) -> &'static str {
        match self {
            Standing::Away => "away",
            Standing::CatchingUp => "catching-up",
            Standing::Avoided => "avoided",
            Standing::Draining => "draining",
            Standing::Up => "up",
        }
    }

    /// An explanation for people; `None`: nothing to explain.
    pub fn meaning(self) -> Option<&'static str> {
        match self {
            Standing::Away => Some("its link is down, or it says nothing"),
            Standing::CatchingUp => Some("it has not heard all purges yet, and is not asked"),
            Standing::Avoided => Some(
                "requests to it failed, or its disks do not answer, and for now it is not asked",
            ),
            Standing::Draining => Some("it is about to end, and gets nothing new"),
            Standing::Up => None,
        }
    }
}

impl Cluster {
    /// The present state of a member; one that does not exist is away.
    pub fn standing(&self, id: MemberId) -> Standing {
        let Some(member) = self.member(id).filter(|member| member.is_trusted()) else {
            return Standing::Away;
        };
        match (self.purging.is_current(id), member.is_usable(self.now_ms())) {
            (false, _) => Standing::CatchingUp,
            (true, false) => Standing::Avoided,
            (true, true) if member.is_draining() => Standing::Draining,
            (true, true) => Standing::Up,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::{ClusterMember, Plan};

    #[test]
    fn a_member_with_a_link_is_asked_only_when_it_has_heard_all_purges() {
        let plan = Plan {
            cluster: Some(plan::Cluster {
                members: vec![ClusterMember::default()],
                ..plan::Cluster::default()
            }),
            ..Plan::with_listeners(Vec::new())
        };
        let cluster = Cluster::new(&plan, None).unwrap().unwrap();
        assert_eq!(cluster.standing(MemberId(0)), Standing::Away);
        cluster.places[0].set_trusted(true, 0);
        assert_eq!(cluster.standing(MemberId(0)), Standing::CatchingUp);
        assert_eq!(
            cluster.standing(MemberId(1)),
            Standing::Away,
            "there is none"
        );
    }

    #[test]
    fn each_state_has_a_word_of_its_own() {
        let mut words = Standing::ALL.map(Standing::as_str).to_vec();
        words.dedup();
        assert_eq!(words.len(), Standing::ALL.len());
        assert!(
            Standing::ALL
                .iter()
                .all(|it| it.meaning().is_none() == (*it == Standing::Up))
        );
    }
}
