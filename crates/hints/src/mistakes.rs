//! Deliberate mistakes in keeping hints, one at a time, so that the simulation can show that it notices them.
//!
//! Only the simulation turns the feature `mistakes` on. Without it no mistake can be made, and the checks compile to nothing.

::mistakes::mistakes! {
    /// A pusher is not told of its own push, although the node cleared a bit of it in an update that the pusher had not applied yet.
    ForgetCleared "forget-cleared"
    /// A pusher is not told of what it pushed before its full copy was complete.
    ForgetFullCopy "forget-full-copy"
    /// The label of a push counts although it belongs to an earlier incarnation of the node.
    ForgetIncarnation "forget-incarnation"
    /// A node clears nothing when a push is withdrawn.
    KeepWithdrawn "keep-withdrawn"
    /// Only the pusher is told of its push, and not the other fronts.
    TellPusherOnly "tell-pusher-only"
    /// No front is told when a name leaves.
    KeepLeft "keep-left"
    /// A name whose object is replaced by a newer version is told again.
    TellReplaced "tell-replaced"
    /// Changes of pushes are sent after the other changes, and so in a wrong order.
    PushesLast "pushes-last"
    /// A rebuilt filter is not sent.
    AnewQuietly "anew-quietly"
    /// A front that was away while a filter was rebuilt goes on from its old label.
    ResumeAcrossAnew "resume-across-anew"
    /// While a filter is rebuilt, the unfinished one is sent as if it were complete.
    AnewBare "anew-bare"
    /// A subscriber that is too far behind gets the updates that are still kept, without those that are forgotten.
    SkipForgotten "skip-forgotten"
    /// Changes that were not sent yet are dropped when a full copy is made.
    DropPending "drop-pending"
    /// A front accepts any update as the next one.
    IgnoreGap "ignore-gap"
    /// A front goes on from its old label with a node that has restarted.
    KeepColumn "keep-column"
    /// Pages that a full copy leaves out keep their old bits.
    KeepSkippedPages "keep-skipped-pages"
    /// A push carries the label at its end instead of the one at which its bits were set.
    LabelLate "label-late"
    /// A front does not withdraw a push whose result it does not know.
    ForgetWithdrawn "forget-withdrawn"
    /// A front goes on from its old label with a node that may not have heard of a withdrawal.
    ForgetLost "forget-lost"
    /// A front still uses the columns of a node that has long been silent.
    TrustSilent "trust-silent"
}
