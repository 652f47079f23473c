// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"compress/gzip"
	"embed"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
)

// files has the script and the style sheet of swagger-ui-dist 5.35.0 as published, compressed with
// gzip. SHA256SUMS has the hashes of the two uncompressed files. The license texts and tenantry's
// own small files are not compressed.
//
//go:embed assets
var files embed.FS

// asset is a file of the pages. Its content is a string, because package guard does not copy a
// whole string to send it. All answers therefore share the memory of one string.
type asset struct {
	contentType string
	content     func() string // the uncompressed content
	compressed  string        // the content in gzip, "" for a small file
}

var contentTypes = map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".txt": "text/plain; charset=utf-8"}

// assets has the assets, keyed by file name.
var assets = loadAssets()

// loadAssets reads the embedded files. It panics when it cannot read a file, which would be a bug.
func loadAssets() map[string]asset {
	entries, err := files.ReadDir("assets")
	if err != nil {
		panic(err)
	}
	assetsByName := map[string]asset{}
	for _, entry := range entries {
		raw, err := files.ReadFile("assets/" + entry.Name())
		if err != nil {
			panic(err)
		}
		name, isCompressed := strings.CutSuffix(entry.Name(), ".gz")
		loaded := asset{contentType: contentTypes[path.Ext(name)], content: func() string { return string(raw) }}
		if isCompressed {
			loaded.compressed = string(raw)
			loaded.content = func() string { return inflate(loaded.compressed) }
		}
		loaded.content = sync.OnceValue(loaded.content)
		if loaded.contentType != "" {
			assetsByName[name] = loaded
		}
	}
	return assetsByName
}

// inflate returns the content of an embedded gzip file. It panics when the file is damaged.
func inflate(compressed string) string {
	reader, err := gzip.NewReader(strings.NewReader(compressed))
	if err != nil {
		panic(err)
	}
	var content strings.Builder
	if _, err := io.Copy(&content, reader); err != nil {
		panic(err)
	}
	return content.String()
}

// Asset serves a file of the pages. It returns false, and writes nothing, when there is no such
// file. A file is inflated once, for the first client that does not accept gzip.
func Asset(w http.ResponseWriter, r *http.Request, name string) bool {
	asset, ok := assets[name]
	if !ok {
		return false
	}
	w.Header().Set("Content-Type", asset.contentType)
	if asset.compressed == "" {
		w.Header().Set("Cache-Control", pageCacheControl)
		_, _ = io.WriteString(w, asset.content()) // writes to memory, cannot fail
		return true
	}
	w.Header().Set("Vary", "Accept-Encoding")
	w.Header().Set("Cache-Control", "public, max-age=86400")
	if AcceptsExplicitly(r.Header.Values("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = io.WriteString(w, asset.compressed)
		return true
	}
	_, _ = io.WriteString(w, asset.content())
	return true
}

// AcceptsExplicitly reports whether an Accept or Accept-Encoding header names the value with a
// weight above 0. A wildcard does not name the value.
func AcceptsExplicitly(header []string, value string) bool {
	for entry := range strings.SplitSeq(strings.Join(header, ","), ",") {
		name, params, _ := strings.Cut(entry, ";")
		if !strings.EqualFold(strings.TrimSpace(name), value) {
			continue
		}
		weight := 1.0
		for param := range strings.SplitSeq(params, ";") {
			if q, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(param)), "q="); ok {
				weight, _ = strconv.ParseFloat(q, 64) // an invalid weight counts as 0
			}
		}
		return weight > 0
	}
	return false
}
