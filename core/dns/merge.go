// SPDX-License-Identifier: Apache-2.0

package dns

// Merge is a domain's status after a read saw what it saw. What a read that is
// not complete does not see may be there all the same, so there the earlier
// sighting stays.
func Merge(earlier, seen Status, complete bool) Status {
	if complete {
		return seen
	}
	return Status{
		MX:               either(seen.MX, earlier.MX),
		SPF:              either(seen.SPF, earlier.SPF),
		DMARC:            either(seen.DMARC, earlier.DMARC),
		DKIM:             either(seen.DKIM, earlier.DKIM),
		VerificationSeen: seen.VerificationSeen || earlier.VerificationSeen,
	}
}

func either(seen, earlier string) string {
	if seen == Missing && earlier != "" {
		return earlier
	}
	return seen
}
