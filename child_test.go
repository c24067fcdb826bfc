package ax_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/axtasks/ax"
)

func TestAChildsIDIsAlwaysTheSameAndNeverAnothers(t *testing.T) {
	t.Parallel()
	id := ax.ChildID("parent", "name")
	require.Len(t, id, 32)
	require.Equal(t, id, ax.ChildID("parent", "name"))
	require.Len(t, ax.ChildID(strings.Repeat("p", 200), strings.Repeat("n", 10_000)), 32)
	require.NotEqual(t, id, ax.ChildID("parentn", "ame"), "parts run into each other")
	require.NotEqual(t, id, ax.ChildID("parent", "name2"))
}
