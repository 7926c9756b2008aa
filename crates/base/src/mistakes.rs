//! Deliberate mistakes of the proxy, so that a simulation can show that it detects each of them.
//!
//! Only the simulation turns on the feature `mistakes`. Without it no mistake can be made and the checks compile to nothing.

::mistakes::mistakes! {
    /// A purge leaves the fetches under way in the table, where later requests join them.
    KeepFlights "keep-flights"
    /// A purge does not remove objects in memory.
    KeepMemory "keep-memory"
    /// A purge by pattern does not remove objects in memory.
    SkipSweep "skip-sweep"
    /// A soft purge leaves objects in memory fresh.
    KeepFresh "keep-fresh"
    /// A response requested before a purge is published and served after it.
    PublishLate "publish-late"
    /// A purge is acknowledged before it is durable.
    AcknowledgeEarly "acknowledge-early"
    /// No wait is ever over due.
    NeverLate "never-late"
    /// A fetch that has ended stays in the table.
    KeepEnded "keep-ended"
    /// A reader that joined a fetch gets its answer even if that may not be shared.
    ShareAnything "share-anything"
    /// Private responses are stored.
    StorePrivate "store-private"
    /// A body that ended early counts as complete.
    StoreBroken "store-broken"
    /// Cookies are stored with the answer that set them.
    KeepCookies "keep-cookies"
    /// All variants of a resource have one key.
    OneVariant "one-variant"
    /// An unsafe method invalidates nothing.
    KeepAfterUnsafe "keep-after-unsafe"
    /// Stored responses are served however old they are.
    ServeStale "serve-stale"
    /// Parts of different versions are combined into one object.
    MixVersions "mix-versions"
    /// Every listener may connect to every address: neither the check before connecting nor the one after it refuses.
    PermitAnything "permit-anything"
    /// Every listener may use every pooled connection.
    PermitPooled "permit-pooled"
    /// An HTTP/2 stream gets the answer to the request of the stream before it on its connection.
    MixStreams "mix-streams"
    /// A client's reset ends the body of its request as if the body were complete.
    TakeResetForEnd "take-reset-for-end"
    /// Consuming the body of a stream gives no window back.
    KeepWindow "keep-window"
    /// Bytes that a client sends after CONNECT, before the answer, are lost.
    LoseEarly "lose-early"
    /// Bytes that the other side of a tunnel does not take at once are lost.
    LoseUntaken "lose-untaken"
    /// A tunnel ends when one of its sides ends.
    EndBoth "end-both"
    /// A tunnel may lead to every port.
    PermitPort "permit-port"
    /// A connection whose origin was told of one client is reused for another client.
    ShareTold "share-told"
    /// A server that cannot be connected to still gets requests.
    AskDown "ask-down"
    /// A server taken out of service is never tried again.
    NeverBack "never-back"
    /// The results of health checks are ignored.
    IgnoreChecks "ignore-checks"
    /// A request with an unsafe method is sent to another server after one has failed.
    RepeatUnsafe "repeat-unsafe"
    /// A request that may not be repeated is sent again when a reused connection closes under it.
    RepeatSent "repeat-sent"
    /// A fetch that is over still counts in its quota.
    KeepFetchPlace "keep-fetch-place"
    /// A connection that is over still counts in its quota.
    KeepConnectionPlace "keep-connection-place"
    /// A request keeps its place in a quota if it is refused, or its client leaves, while it waits for another quota.
    KeepPlaceOfLeaver "keep-place-of-leaver"
    /// Quotas of concurrent fetches or connections count nothing.
    CountNothing "count-nothing"
    /// A body is passed on and stored although its digest differs from the one in its path.
    SkipDigest "skip-digest"
    /// A mirror follows a redirect to any place.
    FollowAnywhere "follow-anywhere"
    /// A request that follows a redirect carries the client's credentials.
    CarryCredentials "carry-credentials"
    /// Prohibitions in the redirects of a chain are ignored.
    ForgetHops "forget-hops"
}
