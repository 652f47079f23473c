// SPDX-License-Identifier: Apache-2.0

package zones

// builtinZones returns the zones that always exist: the zones of the name servers, and iana.org,
// which `tenantry doctor` reads to check that the DNS works.
func builtinZones() map[string]*zone {
	address := func(name, addr string) Record { return Record{Type: "A", Name: name, Content: addr, TTL: 300} }
	lists := map[string][]Record{
		"iana.org": nil,
		otherZone:  {address("*."+otherZone, "127.0.0.1")},
	}
	for _, h := range hostingProviders {
		for _, server := range h.servers {
			lists[h.zone] = append(lists[h.zone], address(server, "127.0.0.1"))
		}
	}
	builtin := map[string]*zone{}
	for apex, records := range lists {
		z, err := newZone(apex, storedZone{Provider: registrarProvider, Serial: 1, Records: records})
		if err != nil {
			panic("built-in zone " + apex + ": " + err.Error()) // cannot happen, because the records are constants
		}
		builtin[apex] = z
	}
	return builtin
}
