// SPDX-License-Identifier: Apache-2.0

package tenant

import "cmp"

// Part is the result of one part of a sync.
type Part struct {
	Status  string
	Message string // safe to show to callers of the API
	Skipped bool
}

// The values of Part.Status, in addition to those of Bootstrap and SMTPAuth.
const (
	PartCompleted = "completed"
	PartFailed    = "failed"
	PartSkipped   = "skipped"
)

// BootstrapPart returns the result of the bootstrap.
func BootstrapPart(p Progress) Part {
	return Part{Status: string(p.Status), Message: cmp.Or(p.Message, bootstrapMessages[p.Status])}
}

var bootstrapMessages = map[Bootstrap]string{
	BootstrapReady:   "the mail server is prepared",
	BootstrapPending: "the mail platform is still preparing the mail server; sync again in a few minutes",
	BootstrapFailed:  "the mail server cannot be prepared",
}

// CorrectProgress returns the progress p with the right status for the stored tenant t. If p is
// pending because it waits for the role, and the bootstrap of t is no longer pending, the role was
// withdrawn and p becomes failed. Every other p is returned unchanged.
func (t Tenant) CorrectProgress(p Progress) Progress {
	if p.Status == BootstrapPending && p.Step == StepGrantRole && t.Bootstrap != BootstrapPending {
		p.Status = BootstrapFailed
	}
	return p
}

// GrantLostProgress returns the progress of a bootstrap when the consent is valid but the grant at
// the mail server is missing.
func GrantLostProgress() Progress {
	return Progress{
		Status: BootstrapFailed, Step: StepGrantRole,
		Message: "the application's role at the mail server is missing; an administrator must assign it again, or give consent again",
	}
}

// SMTPAuthPart returns the part of a sync for a state of SMTP AUTH. The bootstrap of the tenant
// must be ready.
func SMTPAuthPart(state SMTPAuth) Part {
	switch state {
	case SMTPAuthEnabled:
		return Part{Status: string(SMTPAuthEnabled), Message: "authenticated SMTP is enabled for the tenant"}
	case SMTPAuthDisabled:
		return Part{Status: string(SMTPAuthDisabled), Message: "authenticated SMTP is disabled for the tenant"}
	case SMTPAuthRefused:
		return Part{Status: PartFailed, Message: "the mail platform does not allow authenticated SMTP to be enabled for the tenant"}
	default:
		return Part{Status: PartFailed, Message: "the state of authenticated SMTP could not be read"}
	}
}

// SMTPAuthPendingPart returns the part of a sync that enabled SMTP AUTH, while the platform still
// reports SMTP AUTH as disabled.
func SMTPAuthPendingPart() Part {
	return Part{Status: string(SMTPAuthDisabled), Message: "authenticated SMTP was enabled and takes effect soon; sync again in a few minutes"}
}

// SMTPAuthSkippedPart returns the part of a sync that did not check SMTP AUTH.
func SMTPAuthSkippedPart() Part {
	return Part{Status: PartSkipped, Message: "not attempted: the mail server is not prepared yet", Skipped: true}
}

// IsPartial reports whether at least one part of a sync did not succeed.
func IsPartial(bootstrap, smtpAuth, discovery Part, mailboxError string) bool {
	return bootstrap.Status != string(BootstrapReady) ||
		smtpAuth.Status != string(SMTPAuthEnabled) ||
		discovery.Status != PartCompleted || mailboxError != ""
}
