package generator

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"path"
	"strings"
)

// FleetTag makes the tag by which agents of one fleet repository are told from
// those of another that has an overlay of the same name: a hash of the
// repository's host and path and of the directory of overlays. How it is reached
// (https or ssh, the user, the port, a final .git) makes no difference.
func FleetTag(repository, overlays string) string {
	place := repository
	if u, err := url.Parse(repository); err == nil && u.Host != "" {
		place = u.Hostname() + "/" + u.Path
	} else if host, file, scp := strings.Cut(repository, ":"); scp && !strings.Contains(host, "/") {
		place = host[strings.LastIndexByte(host, '@')+1:] + "/" + file
	}
	place = strings.TrimSuffix(path.Clean("/"+strings.ToLower(place)), ".git")
	sum := sha256.Sum256([]byte(place + "\n" + path.Clean("/"+overlays)))
	return hex.EncodeToString(sum[:4])
}
