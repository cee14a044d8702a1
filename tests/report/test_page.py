from pathlib import Path

from lpm.report.page import Page


def test_everything_is_escaped_and_self_contained(tmp_path: Path) -> None:
    page = Page("<b>title</b>")
    page.heading("a & b")
    page.text("<script>x</script>")
    page.table(("<i>h</i>",), [("<td>",)])
    page.figure(b"png", 'caption "quoted"')
    page.write(tmp_path / "page.html")
    html = (tmp_path / "page.html").read_text()
    for bad in ("<b>", "<script>", "<i>", "<td><td>"):
        assert bad not in html
    assert "&lt;script&gt;x&lt;/script&gt;" in html
    assert "&quot;quoted&quot;" in html
    assert 'src="data:image/png;base64,' in html
