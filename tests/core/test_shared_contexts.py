"""Contexts that several texts share."""

from minixla.core.shared_contexts import SharedContexts


def test_a_context_serves_so_much_text_and_long_texts_have_their_own():
    contexts = SharedContexts(object, most=100)
    first = contexts.context_for(0)
    assert contexts.context_for(60) is first
    assert contexts.context_for(101) is not first
    assert contexts.context_for(40) is first
    second = contexts.context_for(1)
    assert second is not first
    assert contexts.context_for(99) is second
