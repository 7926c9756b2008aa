//! Deliberate mistakes of the proxy, one by one, so that its simulation can show that it would notice them.
//!
//! Without the feature `mistakes`, which only the simulation turns on, none can be made and the checks compile to nothing.

::mistakes::mistakes! {
    /// A purge leaves the fetches under way in the table, where later requests join them.
    KeepFlights "keep-flights"
    /// A purge leaves what is in memory.
    KeepMemory "keep-memory"
    /// A purge by pattern leaves what is in memory.
    SkipSweep "skip-sweep"
    /// A soft purge leaves what is in memory fresh.
    KeepFresh "keep-fresh"
    /// What was asked for before a purge is published and served after it.
    PublishLate "publish-late"
    /// A purge is acknowledged before it is durable.
    AcknowledgeEarly "acknowledge-early"
    /// No wait is ever over due.
    NeverLate "never-late"
    /// A fetch that has ended stays in the table.
    KeepEnded "keep-ended"
    /// Who joined a fetch is given its answer, whatever that is.
    ShareAnything "share-anything"
    /// What is private is stored.
    StorePrivate "store-private"
    /// A body that broke off counts as whole.
    StoreBroken "store-broken"
    /// Cookies are stored with the answer that set them.
    KeepCookies "keep-cookies"
    /// All variants of a resource have one key.
    OneVariant "one-variant"
    /// An unsafe method leaves what is stored.
    KeepAfterUnsafe "keep-after-unsafe"
    /// What is stored is served, however old it is.
    ServeStale "serve-stale"
    /// A part is put together with others of another version.
    MixVersions "mix-versions"
    /// Every listener may connect to every address, before and after a packet has gone there,
    PermitAnything "permit-anything"
    /// or use every open connection.
    PermitPooled "permit-pooled"
    /// A stream of HTTP/2 is answered what the one before it on its connection has asked for.
    MixStreams "mix-streams"
    /// A client's reset ends the body of its request, as if all had come.
    TakeResetForEnd "take-reset-for-end"
    /// What was taken of a stream's body gives no window back.
    KeepWindow "keep-window"
    /// What a client has sent behind CONNECT, before the answer, is lost.
    LoseEarly "lose-early"
    /// What the other side of a tunnel does not take at once is lost.
    LoseUntaken "lose-untaken"
    /// A tunnel ends when one of its sides has no more to say.
    EndBoth "end-both"
    /// A tunnel may lead to every port.
    PermitPort "permit-port"
    /// A connection whose origin was told of one client is used for another.
    ShareTold "share-told"
    /// A server that cannot be connected to is asked like the others.
    AskDown "ask-down"
    /// A server that was put out is never tried again.
    NeverBack "never-back"
    /// What the checks of a server tell is not heeded.
    IgnoreChecks "ignore-checks"
    /// What may change something is sent to another server after one has failed.
    RepeatUnsafe "repeat-unsafe"
    /// What may not be repeated is sent once more when a connection that was used before closes under it.
    RepeatSent "repeat-sent"
    /// A fetch keeps its place in a quota when it is over,
    KeepFetchPlace "keep-fetch-place"
    /// or a connection,
    KeepConnectionPlace "keep-connection-place"
    /// or a request that is refused, or whose client leaves, while it waits for another quota.
    KeepPlaceOfLeaver "keep-place-of-leaver"
    /// What a quota counts while it lasts is not counted.
    CountNothing "count-nothing"
    /// A body is passed on and stored although it has another digest than its path says.
    SkipDigest "skip-digest"
    /// A mirror is led wherever its origin says.
    FollowAnywhere "follow-anywhere"
    /// Where a redirect leads, it is told who the client says it is.
    CarryCredentials "carry-credentials"
    /// What the redirects on the way forbid is forgotten.
    ForgetHops "forget-hops"
}
