// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"
	"slices"
	"strings"
)

// proof is the verification token of a domain: the same whenever this tenant
// asks, another one in another tenant.
func (t *tenant) proof(name string) string { return "ms" + digits(8, "proof", t.ID, name) }

// verificationRecords lists two alternatives, of which one is published.
func verificationRecords(c *graphCall, t *tenant) result {
	d, refused := c.readDomain(t)
	if refused != nil {
		return refuse(refused)
	}
	text := dnsRecord(t, d.Name, "Txt", d.Name)
	text["text"] = "MS=" + t.proof(d.Name)
	mail := dnsRecord(t, d.Name, "Mx", d.Name)
	mail["mailExchange"], mail["preference"] = t.proof(d.Name)+".msv1.invalid", 32767
	return c.many("domains('"+d.Name+"')/verificationDnsRecords", []object{text, mail})
}

// verifyDomain answers POST /domains/{fqdn}/verify by asking the DNS.
func verifyDomain(c *graphCall) result {
	c.s.store.verifying.Lock()
	defer c.s.store.verifying.Unlock()
	name := strings.ToLower(c.r.PathValue("id"))
	proof := ""
	c.file.View(func(t *tenant) { proof = t.proof(name) })
	elsewhere, found := c.ownedElsewhere(name), c.published(name, proof)
	return locked(func(c *graphCall, t *tenant) result {
		d := t.domain(name)
		switch {
		case d == nil:
			return refuse(errNotFound.of(name))
		case d.Verified:
			return refuse(errVerified.of(""))
		case elsewhere || t.deniesDomain(name): // for good, whatever the DNS says
			return refuse(errElsewhere.of(name))
		case !found || !d.Denied.over(c.now):
			if !found {
				d.Denied = after(c.now, t.Behaviour.DNSNegativeMS)
			}
			return refuse(errNoRecord.of(name))
		}
		d.Verified, d.Root = true, true
		return c.one(http.StatusOK, "domains", domainObject(*d, "AvailableImmediately"))
	})(c)
}

// published looks for the TXT record or its MX alternative.
func (c *graphCall) published(name, proof string) bool {
	if slices.Contains(c.s.finds(c.r.Context(), name, "TXT"), "MS="+proof) {
		return true
	}
	return slices.Contains(c.s.finds(c.r.Context(), name, "MX"), proof+".msv1.invalid")
}
