// SPDX-License-Identifier: Apache-2.0

package dns

// Merge returns a domain's status after a read. An incomplete read may reflect the view of a single
// server. It therefore only fills in values that were missing and overwrites nothing.
func Merge(earlier, seen Status, complete bool) Status {
	if complete {
		return seen
	}
	return Status{
		MX:               firstKnown(earlier.MX, seen.MX),
		SPF:              firstKnown(earlier.SPF, seen.SPF),
		DMARC:            firstKnown(earlier.DMARC, seen.DMARC),
		DKIM:             firstKnown(earlier.DKIM, seen.DKIM),
		VerificationSeen: seen.VerificationSeen || earlier.VerificationSeen,
	}
}

func firstKnown(earlier, seen string) string {
	if earlier == "" || earlier == Missing {
		return seen
	}
	return earlier
}
