// SPDX-License-Identifier: Apache-2.0

package fault

// Again says whether sending the same request once more may help, and how.
func (c Code) Again() string {
	if c == KeyInProgress {
		return Unavailable.again()
	}
	return c.Kind.again()
}

// again follows from whose move is next.
func (k Kind) again() string {
	switch k {
	case Invalid:
		return "Not as it is: the same request gets the same answer until what is said above has changed. Then send it with a new Idempotency-Key."
	case Unauthenticated:
		return "Not with these credentials. Nothing was done; once the header is right, the same request may be sent with the same Idempotency-Key."
	case PaymentRequired:
		return "When the account's plan has changed. Nothing was done, so the same Idempotency-Key may be used."
	case Forbidden:
		return "When the permission is there again. Until then every such request gets this answer."
	case NotFound, MethodNotAllowed, NotAcceptable, TooLarge, UnsupportedMedia:
		return "No. Nothing was done; the request itself has to change."
	case Conflict:
		return "When the state that is named above has changed. Then send it with a new Idempotency-Key."
	case Unavailable:
		return "Yes: after the seconds of the header `Retry-After`, with the same Idempotency-Key."
	case Timeout:
		return "Yes, with the same Idempotency-Key, after some seconds. What was done already is found, not done twice."
	default: // Internal and BadGateway
		return "Yes, with the same Idempotency-Key, a few times and with growing pauses. What was done already is found, not done twice."
	}
}
