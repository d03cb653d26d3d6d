//! Why packets are not forwarded.
//!
//! Rule: this is the one list of causes. Counters, names in the account, and what counts as a loss derive from it.

use wirecap_headers::RewriteError;

/// Declares [`DropCause`]: each cause with its name in the account, and whether it is a loss.
macro_rules! causes {
    ($($(#[doc = $doc:literal])+ $cause:ident = $name:literal, $kind:ident;)+) => {
        /// Why a packet is not forwarded: what a router finds wrong with it, and what its way out does.
        ///
        /// # Example
        ///
        /// ```
        /// use wirecap_router::DropCause;
        ///
        /// assert_eq!(DropCause::ALL[DropCause::NoRoute as usize].name(), "no_route");
        /// assert!(DropCause::RingFull.is_loss() && !DropCause::TtlExpired.is_loss());
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum DropCause {
            $($(#[doc = $doc])+ $cause,)+
        }

        impl DropCause {
            /// How many causes there are.
            pub const COUNT: usize = [$($name),+].len();

            /// All causes, each at the place of its number.
            pub const ALL: [Self; Self::COUNT] = [$(Self::$cause),+];

            /// Its name in the account.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$cause => $name,)+ }
            }

            /// Whether such a packet was to be sent on and was lost, rather than dropped as a rule, a route or a length asks.
            pub const fn is_loss(self) -> bool {
                match self { $(Self::$cause => causes!(@$kind),)+ }
            }
        }
    };
    (@loss) => { true };
    (@rule) => { false };
}

causes! {
    /// The transmit ring had no room.
    RingFull = "ring_full", loss;
    /// The other port held its share of the pool.
    OverShare = "over_share", loss;
    /// The packet is longer than the MTU of the port that it goes out of.
    TooLong = "too_long", rule;
    /// The port that it goes out of was down.
    LinkDown = "link_down", loss;
    /// The port that it goes out of was deleted.
    Gone = "gone", loss;
    /// The port cannot send the packet at all.
    NotSendable = "not_sendable", loss;
    /// Its TTL was at its end.
    TtlExpired = "ttl_expired", rule;
    /// There was no room for a VLAN tag in front of it.
    NoHeadRoom = "no_head_room", loss;
    /// It was sent to another Ethernet address than the router's.
    NotForUs = "not_for_us", rule;
    /// The router's filter does not want it.
    Unwanted = "unwanted", rule;
    /// There is no route to its destination, or one that says drop.
    NoRoute = "no_route", rule;
    /// Its next hop does not answer.
    NoNeighbour = "no_neighbour", rule;
    /// There was no room to wait for the Ethernet address of its next hop.
    WaitingFull = "waiting_full", loss;
    /// It has no IP header: the header is cut short, claims to be shorter than the shortest, or is of another version than the
    /// EtherType says.
    BadHeader = "bad_header", rule;
    /// The checksum of its IPv4 header is wrong.
    BadChecksum = "bad_checksum", rule;
    /// By its own account it ends within its header, or beyond the frame.
    BadLength = "bad_length", rule;
    /// It has a strict source route that the router is not on.
    StrictSourceRoute = "strict_source_route", rule;
    /// It comes from an address of the router itself.
    OwnSource = "own_source", rule;
    /// It comes from an address that no router forwards from.
    MartianSource = "martian_source", rule;
    /// It goes to an address that no router forwards to.
    MartianDestination = "martian_destination", rule;
    /// It goes to all hosts of a network of the router.
    DirectedBroadcast = "directed_broadcast", rule;
}

impl From<RewriteError> for DropCause {
    fn from(refused: RewriteError) -> Self {
        match refused {
            RewriteError::Expired => Self::TtlExpired,
            RewriteError::NoRoom => Self::NoHeadRoom,
        }
    }
}
