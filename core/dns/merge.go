// SPDX-License-Identifier: Apache-2.0

package dns

// Merge is a domain's status after a read saw what it saw. A read that is not
// complete overwrites no earlier sighting: what it does not see, or sees
// otherwise, may be one server's word. It only fills in what nobody had seen.
func Merge(earlier, seen Status, complete bool) Status {
	if complete {
		return seen
	}
	return Status{
		MX:               either(earlier.MX, seen.MX),
		SPF:              either(earlier.SPF, seen.SPF),
		DMARC:            either(earlier.DMARC, seen.DMARC),
		DKIM:             either(earlier.DKIM, seen.DKIM),
		VerificationSeen: seen.VerificationSeen || earlier.VerificationSeen,
	}
}

func either(earlier, seen string) string {
	if earlier == "" || earlier == Missing {
		return seen
	}
	return earlier
}
