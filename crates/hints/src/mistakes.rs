//! Deliberate mistakes in keeping hints, one by one, so that their simulation can show that it would notice them.
//!
//! Without the feature `mistakes`, which only the simulation turns on, none can be made and the checks compile to nothing.

::mistakes::mistakes! {
    /// A front is not told of what it pushed, although the node cleared a bit of it in an update that the front had not enacted.
    ForgetCleared "forget-cleared"
    /// A front is not told of what it pushed before its full copy was whole.
    ForgetFullCopy "forget-full-copy"
    /// The label of a push counts although it is one of the node's former life.
    ForgetIncarnation "forget-incarnation"
    /// A node clears nothing of what was withdrawn.
    KeepWithdrawn "keep-withdrawn"
    /// The other fronts are not told what one of them pushed.
    TellPusherOnly "tell-pusher-only"
    /// Nobody is told of what leaves.
    KeepLeft "keep-left"
    /// What is replaced by its newer version is told once more.
    TellReplaced "tell-replaced"
    /// Changes of a push are sent apart from the others, and so in another order.
    PushesLast "pushes-last"
    /// A filter that was made anew is not sent.
    AnewQuietly "anew-quietly"
    /// A front that was away while a filter was made anew goes on where it was.
    ResumeAcrossAnew "resume-across-anew"
    /// While a filter is made anew, its half is sent as if it were whole.
    AnewBare "anew-bare"
    /// A subscriber that is too far behind is told what is kept, and not what is forgotten.
    SkipForgotten "skip-forgotten"
    /// What changed and was not sent yet is sent to nobody when a full copy is made.
    DropPending "drop-pending"
    /// A front takes any update for the next one.
    IgnoreGap "ignore-gap"
    /// A front goes on where it was with a node that was started anew.
    KeepColumn "keep-column"
    /// Pages that a full copy leaves out keep what they had.
    KeepSkippedPages "keep-skipped-pages"
    /// A push carries the label at its end, and not the one at which its bits were set.
    LabelLate "label-late"
    /// A front does not withdraw a push whose end it does not know.
    ForgetWithdrawn "forget-withdrawn"
    /// A front goes on where it was with a node that may not have heard of a withdrawal.
    ForgetLost "forget-lost"
    /// A front looks up in columns of a node that has long been silent.
    TrustSilent "trust-silent"
}
