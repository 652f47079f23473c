// SPDX-License-Identifier: Apache-2.0

package fake

import "github.com/tenantry/tenantry/core/dns"

// beyond looks names up in the zones. Of names in no zone nothing is known.
func (d *DNS) beyond(n dns.Needs) dns.Beyond {
	b := dns.Beyond{SPF: map[string][]string{}, Exchanges: map[string]dns.Exchange{}}
	for open := n.SPF; len(open) > 0; open = open[1:] {
		texts, known := d.texts(open[0])
		if _, done := b.SPF[open[0]]; done || !known {
			continue
		}
		b.SPF[open[0]] = texts
		for _, text := range texts {
			open = append(open, dns.SPFReferences(text)...)
		}
	}
	b.Above, b.Keys = d.allTexts(n.Above), d.allTexts(n.Keys)
	for _, host := range n.Exchanges {
		if state, known := d.exchange(host); known && state != "" {
			b.Exchanges[host] = state
		}
	}
	return b
}

func (d *DNS) allTexts(names []string) map[string][]string {
	out := map[string][]string{}
	for _, name := range names {
		if texts, known := d.texts(name); known {
			out[name] = texts
		}
	}
	return out
}

func (d *DNS) texts(name string) (values []string, known bool) {
	_, records, known := d.zone(name)
	return dns.Find(sets(name, records), name, dns.TXT).Values, known
}

func (d *DNS) exchange(host string) (state dns.Exchange, known bool) {
	_, records, known := d.zone(host)
	held := sets(host, records)
	switch {
	case len(dns.Find(held, host, dns.CNAME).Values) > 0:
		return dns.ExchangeAlias, known
	case len(dns.Find(held, host, dns.A).Values)+len(dns.Find(held, host, dns.AAAA).Values) == 0:
		return dns.ExchangeNowhere, known
	default:
		return "", known
	}
}
