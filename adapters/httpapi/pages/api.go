// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"compress/gzip"
	"embed"
	"io"
	"net/http"
	"path"
	"strings"
)

// The assets of swagger-ui-dist 5.35.0 are as published, but for being
// gzipped; SHA256SUMS has the hashes of what is inside.
//
//go:embed assets
var assets embed.FS

// apiPolicy lets the API page run our scripts and call this service, and
// nothing else. Swagger UI brings its icons as data: images.
const apiPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// maxAsset is above the size of every asset; the largest has 1.7 MB.
const maxAsset = 4 << 20

// API is the document in a browser, with requests to try.
func API(w http.ResponseWriter, _ *http.Request) { show(w, "api.html", apiPolicy, nil) }

// Asset serves a file of the pages and reports whether there is one.
func Asset(w http.ResponseWriter, r *http.Request, name string) bool {
	kind := map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".txt": "text/plain; charset=utf-8"}[path.Ext(name)]
	if kind == "" {
		return false
	}
	if plain, err := assets.ReadFile("assets/" + name); err == nil {
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(plain) // a caller who went away is no error of ours
		return true
	}
	packed, err := assets.Open("assets/" + name + ".gz")
	if err != nil {
		return false
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Vary", "Accept-Encoding")
	w.Header().Set("Cache-Control", "public, max-age=86400")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = io.Copy(w, packed)
		return true
	}
	unpacked, err := gzip.NewReader(packed)
	if err != nil {
		panic(err) // the file is part of the program
	}
	_, _ = io.CopyN(w, unpacked, maxAsset)
	return true
}
