use std::collections::HashMap;

/// String interner for names.
#[derive(Debug, Default)]
pub(crate) struct IndexedNames {
    ids: HashMap<Box<str>, u32>,
    texts: Vec<Box<str>>,
    bytes: usize,
}

/// Id of a name.
pub(crate) type NameId = u32;

/// Id of a symbol without a name.
pub(crate) const NAMELESS: NameId = NameId::MAX;

impl IndexedNames {
    pub(crate) fn id(&mut self, name: &str) -> NameId {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let Ok(id) = NameId::try_from(self.texts.len()) else { return NAMELESS };
        self.ids.insert(name.into(), id);
        self.texts.push(name.into());
        self.bytes += 2 * name.len() + 48;
        id
    }

    pub(crate) fn text(&self, id: NameId) -> &str {
        self.texts.get(id as usize).map_or("", |text| text)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (NameId, &str)> {
        (0..).zip(self.texts.iter().map(|text| &**text))
    }

    /// Memory use in bytes.
    pub(crate) fn size(&self) -> usize {
        self.bytes
    }
}
