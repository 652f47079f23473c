// SPDX-License-Identifier: Apache-2.0

package provisioning

import (
	"time"

	"github.com/tenantry/tenantry/core/dns"
)

// Observation is the result of a step. The zero value means that there was no error, that the DNS
// read is not reliable, and that the platform is not ready.
type Observation struct {
	// Err is the error with which the step failed: a fault.Error, or an outcome.Error of the mail
	// platform or another component. Any other error counts as an internal fault.
	Err error
	// WriteErr is the error of Apply's write at the DNS provider. It is nil when the write
	// succeeded or Apply wrote nothing.
	WriteErr error
	// Zone summarizes what the zone needs. It is set after Plan, Apply, ReadDNS and Validate. It is
	// also set after a Verify or EnableDKIM for which the platform was not ready. After a failed
	// read it is the zero Zone.
	Zone Zone
	// RecordsVisible is set after ReadDNS. It is true for a reliable read in which every server
	// that answers shows all records of the plan.
	RecordsVisible bool
	// NegativeTTL is min(SOA TTL, SOA MINIMUM) of the zone, 0 when unknown.
	NegativeTTL time.Duration
	// Ready is true after Apply when the plan was written, and after Validate when the platform
	// signs. After steps at the mail platform it is true when the platform has completed the step.
	Ready bool
}

// Zone summarizes a plan and the DNS provider that serves the zone.
type Zone struct {
	// Provider is the id of the DNS provider, "" if no provider with a plugin was found.
	Provider string
	// FromProvider is true when the plan was made from the records that the provider stores.
	FromProvider bool
	Reliable     bool
	// Conflict is true when a conflict blocks the plan, Changes when the domain needs a write.
	Conflict, Changes bool
	// Incomplete is dns.Plan.Incomplete.
	Incomplete bool
	Hash       string
	// Required and Message are the fields of dns.Automation with these names.
	Required dns.ActionRequired
	Message  string
}

// ZoneOf returns the summary of a plan, on which the decisions of a job depend.
func ZoneOf(h dns.Holder, a dns.Automation, p dns.Plan) Zone {
	return Zone{
		Provider: a.Provider.ID, FromProvider: h.Access.Standing == dns.ZoneAccessible,
		Reliable: p.Reliable, Conflict: len(p.Blocking()) > 0, Changes: !p.Complete(),
		Incomplete: p.Incomplete(), Hash: p.Hash(), Required: a.Required, Message: a.Message,
	}
}

// needsNoWrite reports whether the zone needs no write, no matter who wrote its records.
func (z Zone) needsNoWrite() bool { return z.Reliable && !z.Conflict && !z.Changes }

// requiredAction returns the action that is needed before the zone's changes can be written, "" for
// none.
func (z Zone) requiredAction() dns.ActionRequired {
	switch {
	case z.Required != "":
		return z.Required
	case !z.Reliable:
		return dns.ReadUnreliable
	case z.Conflict:
		return dns.ConflictToResolve
	default:
		return ""
	}
}
